const no_such_thing: = 1;
