package main

import (
	"fmt"
	"os"
)

func main() {
	args := os.Args[1:]
	fmt.Println(len(args))
	for _, arg := range args {
		fmt.Println(arg)
	}
}
