import { z } from "zod";
import { timestamp } from "./envelope.ts";

const digits = /^[0-9]{1,15}$/;

const wholeNumberIn = (min: number, max: number) =>
  z
    .int({ error: ({ code }) => (code === "invalid_type" ? "is not a whole number" : undefined) })
    .min(min)
    .max(max);

/** Decimal digits and nothing else, where `Number` would also read "0x10", "1e1" and " 7". */
const readDigits = (text: unknown): unknown => (typeof text === "string" && digits.test(text) ? Number(text) : text);

/** A whole number in an address. `otherwise` is what a call without it gets. */
export const wholeNumber = (min: number, max: number, otherwise: number) =>
  z.preprocess(readDigits, wholeNumberIn(min, max).default(otherwise));

/** A whole number in an address that a call may leave out. */
export const optionalWholeNumber = (min: number, max: number) =>
  z.preprocess(readDigits, wholeNumberIn(min, max)).optional();

/** A moment that a caller asks about. The database has no year 0. */
export const moment = timestamp.refine((text) => !text.startsWith("0000-"), "lies before the year 1");
