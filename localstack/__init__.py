"""A local AWS: started, deployed to, seeded and stopped, all inside the checkout."""
