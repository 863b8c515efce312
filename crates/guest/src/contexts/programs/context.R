# Keeps an interpreter alive: takes code from descriptor 3, and tells on descriptor 4
# what it shows and how it ends. All that is ours is in one environment, which the code
# does not see by name.

local({
  requests <- file("/dev/fd/3", open = "rb", raw = TRUE)
  replies <- file("/dev/fd/4", open = "wb", raw = TRUE)
  number <- "0"
  max_text <- 256L * 1024L
  plots <- tempfile("plots-")
  dir.create(plots)

  # Bytes, for characters are counted otherwise.
  frame <- function(kind, payload) {
    payload <- charToRaw(enc2utf8(payload))
    c(charToRaw(sprintf("%s %s %d\n", number, kind, length(payload))), payload)
  }

  tell <- function(frames) {
    writeBin(frames, replies)
    flush(replies)
  }

  json_text <- function(text) {
    text <- iconv(enc2utf8(text), "UTF-8", "UTF-8", sub = "?")
    text <- gsub("\\", "\\\\", text, fixed = TRUE)
    text <- gsub("\"", "\\\"", text, fixed = TRUE)
    text <- gsub("\n", "\\n", text, fixed = TRUE)
    text <- gsub("\r", "\\r", text, fixed = TRUE)
    text <- gsub("\t", "\\t", text, fixed = TRUE)
    text <- gsub("\033", "\\u001b", text, fixed = TRUE)
    text <- gsub("[\001-\037]", "", text)
    paste0("\"", text, "\"")
  }

  json_object <- function(fields) {
    names <- vapply(names(fields), json_text, "")
    values <- vapply(fields, json_text, "")
    paste0("{", paste0(names, ":", values, collapse = ","), "}")
  }

  base64 <- function(bytes) {
    letters64 <- c(LETTERS, letters, 0:9, "+", "/")
    missing <- (3 - length(bytes) %% 3) %% 3
    b <- matrix(as.integer(c(bytes, raw(missing))), nrow = 3)
    n <- b[1, ] * 65536 + b[2, ] * 256 + b[3, ]
    digits <- rbind(n %/% 262144, (n %/% 4096) %% 64, (n %/% 64) %% 64, n %% 64)
    text <- letters64[digits + 1]
    if (missing > 0) text[length(text) - seq_len(missing) + 1] <- "="
    paste(text, collapse = "")
  }

  # Plots: a device that draws to files, whose pages are shown.

  options(device = function(...) {
    args <- list(filename = file.path(plots, "page-%03d.png"), width = 800, height = 600)
    if (isTRUE(capabilities("cairo"))) args$type <- "cairo"
    do.call(grDevices::png, args)
  })

  show_plots <- function() {
    while (!is.null(grDevices::dev.list())) grDevices::dev.off()
    for (page in sort(list.files(plots, full.names = TRUE))) {
      bytes <- readBin(page, "raw", file.size(page))
      unlink(page)
      if (length(bytes) > 0 && length(bytes) < 500000) {
        tell(frame("display", json_object(list("image/png" = base64(bytes)))))
      }
    }
  }

  # Values

  html_text <- function(text) {
    text <- gsub("&", "&amp;", text, fixed = TRUE)
    gsub("<", "&lt;", text, fixed = TRUE)
  }

  html_table <- function(table) {
    cells <- format(utils::head(table, 60L))
    row <- function(tag, of) {
      paste0("<tr>", paste0("<", tag, ">", html_text(of), "</", tag, ">", collapse = ""), "</tr>")
    }
    rows <- vapply(seq_len(nrow(cells)), function(n) {
      row("td", c(rownames(cells)[n], vapply(cells[n, , drop = FALSE], as.character, "")))
    }, "")
    paste0("<table>", row("th", c("", names(cells))), paste(rows, collapse = ""), "</table>")
  }

  bundle_of <- function(value) {
    text <- paste(utils::capture.output(print(value)), collapse = "\n")
    bundle <- list("text/plain" = substr(text, 1L, max_text))
    if (is.data.frame(value) && ncol(value) > 0) {
      html <- tryCatch(html_table(value), error = function(e) NULL)
      if (!is.null(html) && nchar(html) <= max_text) bundle[["text/html"]] <- html
    }
    bundle
  }

  display <- function(value) {
    tell(frame("display", json_object(bundle_of(value))))
    invisible(value)
  }
  assign("display", display, envir = attach(NULL, name = "sandbox"))

  # Runs

  outcome <- NULL

  raised <- function(name, value, calls) {
    steps <- vapply(calls, function(call) paste(deparse(call, nlines = 1L), collapse = ""), "")
    traceback <- paste(c(paste0(name, ": ", value), sprintf("  at %s", rev(steps))), collapse = "\n")
    outcome <<- list(name = name, value = value, traceback = traceback)
  }

  evaluate <- function(code) {
    result <- NULL
    calls <- list()
    # The innermost of our own calls.
    ours <- quote(eval(steps[[n]], globalenv()))
    tryCatch(
      withCallingHandlers({
        steps <- parse(text = code, keep.source = FALSE)
        for (n in seq_along(steps)) {
          seen <- withVisible(eval(steps[[n]], globalenv()))
          if (!seen$visible) next
          if (n < length(steps)) print(seen$value)
          # NULL is a value, and none to show.
          else if (!is.null(seen$value)) result <- bundle_of(seen$value)
        }
      },
      error = function(e) {
        # Without ours, which come first, and what signals it, which comes last.
        all <- utils::head(sys.calls(), -2L)
        is_ours <- vapply(all, function(call) identical(call, ours), NA)
        calls <<- utils::tail(all, -max(which(is_ours), 0L))
      }),
      error = function(e) raised(class(e)[[1L]], conditionMessage(e), calls),
      interrupt = function(e) raised("interrupt", "the code was interrupted", list())
    )
    result
  }

  run <- function(code) {
    outcome <<- NULL
    result <- evaluate(code)
    if (!is.null(result)) tell(frame("result", json_object(result)))
    tryCatch(show_plots(), error = function(e) message("a plot could not be shown: ", conditionMessage(e)))
    flush(stdout())
    if (is.null(outcome)) {
      tell(frame("done", "0"))
    } else {
      tell(c(frame("error", json_object(outcome)), frame("done", "1")))
    }
  }

  serve <- function() {
    options(warn = 1)
    tell(frame("ready", ""))
    repeat {
      # An interruption that comes late is for nobody.
      head <- tryCatch(readLines(requests, 1L), interrupt = function(e) NA)
      if (length(head) == 0L) break
      if (is.na(head)) next
      words <- strsplit(head, " ", fixed = TRUE)[[1L]]
      number <<- words[[1L]]
      size <- as.integer(words[[2L]])
      code <- if (size > 0L) rawToChar(readBin(requests, "raw", size)) else ""
      Encoding(code) <- "UTF-8"
      tryCatch(run(code), interrupt = function(e) {
        raised("interrupt", "the code was interrupted", list())
        tell(c(frame("error", json_object(outcome)), frame("done", "1")))
      })
    }
  }

  serve()
})
