package main

import "fmt"

func main() {
	fmt.Println("grüße 世界 🦀")
}
