. "$(dirname "$0")/../steps.sh"

say "A pod that states nothing: the text names what is missing."
run quota-admission submit -n myspace -f manifests/nothing.yaml

say "With requests alone it still lacks the limits."
run quota-admission submit -n myspace -f manifests/requests-only.yaml

say "Three of four GPUs, then two more."
run quota-admission submit -n myspace -f manifests/three-gpus.yaml
run quota-admission submit -n myspace -f manifests/two-gpus.yaml

say "Two of three load balancers."
run quota-admission submit -n myspace -f manifests/balancers.yaml
run usage myspace
