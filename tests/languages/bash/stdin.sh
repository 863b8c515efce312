sum=0
while read -r number; do
	((sum += number))
done
echo "$sum"
