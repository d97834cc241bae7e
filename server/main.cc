#include "server/server_main.h"

int main(int argc, char** argv) { return lockstep::ServerMain(argc, argv); }
