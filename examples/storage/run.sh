. "$(dirname "$0")/../steps.sh"

say "400Gi of gold are in use. 200Gi more: the total has room, gold has not."
run usage data volumes
run quota-admission submit -n data -f manifests/index.yaml

say "A claim that grows is charged what it grows by."
run quota-admission submit -n data -f manifests/database-grown.yaml --old policies/claims.yaml
run usage data volumes

say "700Gi of bronze: bronze has room, the total has not."
run quota-admission submit -n data -f manifests/backup.yaml
run quota-admission submit -n data -f manifests/archive.yaml

say "Ephemeral storage: who states none is charged none, and need not state it."
run quota-admission submit -n data -f manifests/scratch.yaml -f manifests/nothing.yaml
run quota-admission submit -n data -f manifests/more-scratch.yaml
run usage data
