<?php
echo "before\n";
while (true);
