args <- commandArgs(trailingOnly = TRUE)
cat(length(args), args, sep = "\n")
