import { z } from "zod";
import { isOneLine } from "../text.ts";

/** What people call something: one line of 1 to `max` characters that shows something. */
export const displayName = (max: number): z.ZodString =>
  z
    .string()
    .min(1)
    .max(max)
    .refine(isOneLine, "contains control characters")
    .refine((text) => text.trim() !== "", "is blank");
