. "$(dirname "$0")/../steps.sh"

say "A pod of class high: of the three quotas only pods-high moves."
run quota-admission submit -f manifests/high.yaml
run usage default

say "A pod of class low that is more than pods-low has."
run quota-admission submit -f manifests/low.yaml

say "A pod without a class: none of these quotas is about it."
run quota-admission submit -f manifests/none.yaml
run usage default
