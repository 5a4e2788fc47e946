const e=e=>e,t=(e,t)=>Object.hasOwn(e,t)?e[t]:[];export{e as defineRealtimeEvents,t as eventsFor};
