import { type Logger, pino } from "pino";

export type Log = Logger;

/** The one logger of the process: JSON lines on stdout. What may hold a secret is cut here, whoever logs it. */
export const createLog = (level: string): Log =>
  pino({
    level,
    base: { program: "router" },
    redact: {
      paths: ["password", "*.password", "token", "*.token", "privateKeyPem", "*.privateKeyPem"],
      censor: "[redacted]",
    },
  });
