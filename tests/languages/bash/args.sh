args=("$@")
echo "${#args[@]}"
printf '%s\n' "${args[@]}"
