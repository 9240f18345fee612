. "$(dirname "$0")/../steps.sh"

say "A deployment of two replicas, and what the controllers make of it."
run quota-admission submit -f manifests/deployment.yaml
run quota-admission submit -f manifests/by-controllers.yaml
run usage default

say "Scaled to four: no controller is refused anything, but the fourth pod is."
run quota-admission submit -f manifests/scaled-up.yaml
run usage default
