. "$(dirname "$0")/../steps.sh"

say "A pod without requests is in best-effort and in not-terminating; a second one is too many."
run quota-admission submit -n shared -f manifests/spare.yaml
run quota-admission submit -n shared -f manifests/second-spare.yaml

say "A pod that ends by itself is in terminating, and in not-best-effort because it states requests."
run quota-admission submit -n shared -f manifests/job.yaml
run quota-admission submit -n shared -f manifests/second-job.yaml

say "A pod of a priority class is in the quota of that class as well."
run quota-admission submit -n shared -f manifests/web.yaml

say "A pod that keeps away from pods of other namespaces."
run quota-admission submit -n shared -f manifests/picky.yaml
run usage shared
