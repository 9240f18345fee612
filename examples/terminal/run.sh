. "$(dirname "$0")/../steps.sh"

say "Three pods exist, two of them finished: one counts."
run usage default
run quota-admission submit -f manifests/second.yaml
run usage default

say "The quota is lowered below what is used: nobody is evicted, and who comes is refused."
put lowered/quota.yaml default few pods 1
run usage default
run quota-admission submit -f manifests/third.yaml

say "One goes, and there is still no room. The other goes, and there is."
run quota-admission submit --delete -f manifests/second.yaml
run quota-admission submit -f manifests/third.yaml
run quota-admission submit --delete -f policies/pods.yaml
run quota-admission submit -f manifests/third.yaml
run usage default
