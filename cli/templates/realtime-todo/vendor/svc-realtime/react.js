"use client";import{t as e}from"./shared-DKXK67KM.js";import{useEffect as t,useRef as n,useState as r}from"react";function i({url:i,channel:a,events:o=[],onEvent:s,enabled:c=!0}){let[l,u]=r(c?`connecting`:`closed`),d=n(s);t(()=>{d.current=s});let f=o.join(`
`);return t(()=>{if(!c)return;let t=e({url:i,channels:[a],events:f.split(`
`).filter(Boolean),onEvent:e=>d.current(e),onStatus:u,parseJson:!0});return u(t.status()),()=>t.close()},[i,a,c,f]),{connected:l===`open`,status:l}}export{i as useRealtime};
