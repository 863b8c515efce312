package main

import "fmt"

func main() {
	fmt.Println(no_such_thing)
}
