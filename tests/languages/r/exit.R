cat("before\n")
quit(status = 7)
