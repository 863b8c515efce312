echo before
while :; do
	:
done
