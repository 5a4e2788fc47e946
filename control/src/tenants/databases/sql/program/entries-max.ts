/** Tables of a schema in one reply, and as many views. */
export const entriesMax = 2_000;
