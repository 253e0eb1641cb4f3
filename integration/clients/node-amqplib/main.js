'use strict';
require('./connections');
require('./topology');
require('./messages');
require('./features');
require('./frame').main(process.argv.slice(2));
