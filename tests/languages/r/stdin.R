cat(sum(as.integer(readLines(file("stdin")))), "\n", sep = "")
