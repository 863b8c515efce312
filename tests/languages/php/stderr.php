<?php
echo "to stdout\n";
fwrite(STDERR, "to stderr\n");
