/** Waits until `look` finds something, looking every 50 ms. */
export async function waitFor<T>(
  what: string,
  look: () => T | Promise<T>,
  timeoutMs = 120_000,
): Promise<NonNullable<T>> {
  const endsAtMs = Date.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > endsAtMs) throw new Error(`${what}: did not happen within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
