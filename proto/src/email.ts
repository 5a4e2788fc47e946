import { z } from "zod";
import { limits } from "./limits.ts";

const address = z.email().max(limits.emailLengthMax);
/** The domain under which no mail arrives anywhere. Former users have addresses there. */
const nowhere = /[@.]invalid$/;

/** `text` as an address in lower case; null when it is not written like one, whoever may have it. ASCII only. */
export function writtenAddress(text: string): string | null {
  const result = address.safeParse(text);
  return result.success ? result.data.toLowerCase() : null;
}

/**
 * `text` as the address that accounts are kept under (lower case); null when it is none that somebody can come in with:
 * one that looks like another one, that breaks a mail's header, or that is nobody's.
 */
export function emailAddress(text: string): string | null {
  const written = writtenAddress(text);
  return written === null || nowhere.test(written) ? null : written;
}
