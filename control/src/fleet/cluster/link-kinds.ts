/** Lines that tell of a machine's link. `unknown` and `reconciling` are moments, and `quarantined` is written by who finds it out. */
export const linkKinds = ["connected", "suspect", "unreachable"] as const;
