cat("to stdout\n")
message("to stderr")
