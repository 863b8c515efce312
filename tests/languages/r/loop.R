cat("before\n")
repeat {}
