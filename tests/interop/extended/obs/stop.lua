obs = obslua

local STREAM_MS = 2500

function stop()
  obs.remove_current_callback()
  obs.obs_frontend_streaming_stop()
end

function on_event(event)
  if event == obs.OBS_FRONTEND_EVENT_STREAMING_STARTED then
    obs.timer_add(stop, STREAM_MS)
  end
end

function script_load(settings)
  obs.obs_frontend_add_event_callback(on_event)
end
