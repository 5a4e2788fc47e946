import { error } from "@sveltejs/kit";
import { loaves } from "../../../loaves.js";

export function load({ params }) {
  const loaf = loaves.find(({ slug }) => slug === params.slug);
  if (loaf === undefined) error(404, "No such loaf was baked");
  return { loaf };
}
