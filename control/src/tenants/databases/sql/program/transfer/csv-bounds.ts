// @pure
import { limits } from "@svc/proto/limits";
import type { CsvBounds } from "./csv.ts";

/** Of an import. No engine has tables of more columns. */
export const csvBounds: CsvBounds = { recordLengthMax: limits.importRowLengthMax, fieldsMax: 4096 };
