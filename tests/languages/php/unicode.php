<?php
echo "grüße 世界 🦀\n";
