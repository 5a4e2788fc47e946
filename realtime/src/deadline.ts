import type { Machine } from "./machine.ts";

/** What `work` comes to, or null when that takes longer than `ms`. */
export async function within<T>(machine: Machine, ms: number, work: Promise<T>): Promise<T | null> {
  let callOff = (): void => {};
  const late = new Promise<null>((resolve) => {
    callOff = machine.after(ms, () => resolve(null));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    callOff();
  }
}
