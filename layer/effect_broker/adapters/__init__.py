"""One kind of target a module: each turns a contract and an effect into one request."""
