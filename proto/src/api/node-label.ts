import { z } from "zod";
import { limits } from "../limits.ts";
import { isOneLine } from "../text.ts";

/** What a label of a machine is called. */
export const nodeLabelName = z
  .string()
  .regex(/^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/, "is not the name of a label");

export const nodeLabelValue = z
  .string()
  .max(limits.nodeLabelLengthMax)
  .refine(isOneLine, "contains control characters");
