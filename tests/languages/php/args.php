<?php
echo $argc - 1, "\n";
foreach (array_slice($argv, 1) as $arg) {
    echo "$arg\n";
}
