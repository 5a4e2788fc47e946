import { readFileSync } from "node:fs";

/** Names this boot of the machine: another one after each. */
export const readBootId = (): string => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
