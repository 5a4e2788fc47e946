import { definitionEndpoints } from "./definitions/endpoints.ts";

export const jobEndpoints = [...definitionEndpoints];
