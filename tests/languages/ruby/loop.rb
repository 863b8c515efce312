$stdout.sync = true
puts "before"
loop {}
