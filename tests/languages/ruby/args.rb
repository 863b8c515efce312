puts ARGV.size
puts ARGV
