/** Like Promise.all, but leaves nothing running behind a failure. */
export async function settleAll<T extends readonly unknown[]>(
  work: readonly [...{ [K in keyof T]: Promise<T[K]> }],
): Promise<T> {
  const results = await Promise.allSettled(work);
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return Promise.all(work) as unknown as Promise<T>;
}
