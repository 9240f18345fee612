# For the scripts of the examples: every command is shown, and then run.
#
# With a server that was started by hand, say where it is: QUOTA_ADMISSION_SERVER, QUOTA_ADMISSION_CA and
# QUOTA_ADMISSION_USAGE. The defaults are those of `make run`.
cd "$(dirname "$0")" || exit 1
export PATH="$(cd .. && pwd):$PATH"
export QUOTA_ADMISSION_CA="${QUOTA_ADMISSION_CA:-../../run/certs/ca.crt}"

say() {
    printf '\n# %s\n' "$@"
}

run() {
    printf '$ %s\n' "$*"
    "$@" 2>&1 || true # a refusal is what an example may be about
}

# Put a file in the place of the policy of the same name, and wait until the rest of the line is in force.
put() {
    printf '$ cp %s policies/\n' "$1"
    cp "$1" "${POLICIES:?start this example with examples/run}/.new"
    mv "$POLICIES/.new" "$POLICIES/$(basename "$1")"
    shift
    usage --until "$@"
}
