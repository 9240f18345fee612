. "$(dirname "$0")/../steps.sh"

say "The class cluster-services in kube-system, and elsewhere."
run quota-admission submit -n kube-system -f manifests/dns.yaml
run quota-admission submit -n team -f manifests/dns.yaml

say "Other classes, and pods without one, are free everywhere."
run quota-admission submit -n team -f manifests/web.yaml -f manifests/plain.yaml

say "The same for an affinity to other namespaces."
run quota-admission submit -n mesh -f manifests/picky.yaml
run quota-admission submit -n team -f manifests/picky.yaml

run usage kube-system
run usage mesh
