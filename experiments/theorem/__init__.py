"""The paper's convergence theorem as an experiment: quadratics that drift, Algorithm 4, and what bounds its regret."""
