import type { Machine } from "./machine.ts";
/** What `work` comes to, or null when that takes longer than `ms`. */
export declare function within<T>(machine: Machine, ms: number, work: Promise<T>): Promise<T | null>;
