/** Chance, as a program sees it; handed over like a `Clock`. Secrets come from `node:crypto`, never from here. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** A new id: a UUID that nobody else has. */
  uuid(): string;
}
