. "$(dirname "$0")/../steps.sh"

say "A pod that states nothing gets the defaults, and is counted as that."
run quota-admission submit -n team -f manifests/nothing.yaml
run usage team

say "The same without a LimitRange: a quota makes stating a duty."
run quota-admission submit -n bare -f manifests/nothing.yaml
run usage bare

say "With nothing used, a pod of 1500m: the total has room, the maximum of one container has not."
run quota-admission submit -n team --delete -f manifests/nothing.yaml
run quota-admission submit -n team -f manifests/large.yaml

say "900m, 900m, then 300m: the third would make 2100m of 2000m."
run quota-admission submit -n team -f manifests/first.yaml -f manifests/second.yaml
run quota-admission submit -n team -f manifests/third.yaml
run usage team

say "Refused ten times more: what is used does not change."
run quota-admission submit -n team -f manifests/ten.yaml
run usage team

say "Delete one, and try again."
run quota-admission submit -n team --delete -f manifests/first.yaml
run quota-admission submit -n team -f manifests/third.yaml
run usage team

say "Seven pods of 10m: the seventh is refused by the count, whatever CPU is left."
run quota-admission submit -n team --delete -f manifests/second.yaml -f manifests/third.yaml
run quota-admission submit -n team -f manifests/seven.yaml
run usage team

say "A default above the maximum of another LimitRange: the warning is for the author of the two."
run quota-admission submit -n odd -f manifests/nothing.yaml
