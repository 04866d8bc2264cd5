// Stands for a graphics driver's library: it is loaded, and that is all that is asked.
extern "C" __attribute__((visibility("default"))) int stands_for_a_driver() { return 1; }
