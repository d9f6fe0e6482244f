"""Set-up messages and first frames that real encoders made, for the tests of tags and of set-up records.

Each FLV was written by `ffmpeg -f lavfi -i testsrc=size=SIZE:rate=RATE:duration=0.2` (video) or `-i
sine=sample_rate=RATE:duration=0.2` (audio) with the options beside the message, and the message is the payload of the
first tag that holds the decoder configuration. "5.1" is Debian's FFmpeg 5.1.9, "7.0" the 7.0.2 of the imageio-ffmpeg
wheel, which writes enhanced tags. The facts that tests expect are what ffprobe 5.1.9 says of the same files.
"""

# 5.1: -c:v libx264 -preset ultrafast -profile:v high -level 4.0 -pix_fmt yuv420p -bf 2 -8x8dct 1; 1920x1080 at 30
AVC_HIGH_1080P30 = bytes.fromhex(
    "170000000001640028ffe1001b67640028acd940780227e5c044000003000400000300f03c60c65801000468ce0fcbfdf8f800"
)
# 5.1: -c:v libx264 -profile:v baseline -level 1.1 -pix_fmt yuv420p; 160x90 at 25
AVC_BASELINE_90P25 = bytes.fromhex(
    "17000000000142c00bffe100186742c00bd9028df93011000003000100000300320f142a4801000568cb83cb20"
)
# 5.1: -c:v libx264 -preset ultrafast -flags +ilme+ildct -x264opts tff=1 -level 4.1 -pix_fmt yuv420p; 1920x1080 at 25
AVC_MAIN_1080I25 = bytes.fromhex(
    "1700000000014d4029ffe10019674d4029f403c0227ef011000003000100000300321f162ea001000468de0fc8"
)
# 5.1: -c:v libx264 -preset medium -profile:v main -level 3.1 -pix_fmt yuv420p; 1278x718 at 30000/1001
AVC_MAIN_718P29 = bytes.fromhex(
    "1700000000014d401fffe10018674d401feca02802df55808800001f480007530078c18cb001000568ebe3cb20"
)
# 7.0: -c:v libx264 -preset ultrafast -profile:v high422 -pix_fmt yuv422p10le; 640x360 at 60
AVC_HIGH422_360P60 = bytes.fromhex(
    "1700000000017a001fffe10019677a001fb6cb405017fc4e0220000003002000000f01e3065401000468ce0fc8fefafa00"
)
# 7.0: -c:v libx264 -preset ultrafast -profile:v high444 -pix_fmt yuv444p; 322x182 at 24
AVC_HIGH444_182P24 = bytes.fromhex(
    "170000000001f4000dffe1001a67f4000d919681519e3e2f011000000300100000030300f142aa01000568ce0f1920fff8f800"
)
# 7.0: -c:v libx265 -preset ultrafast -x265-params info=0 -pix_fmt yuv420p; 1920x1080 at 30
HEVC_MAIN_1080P30 = bytes.fromhex(
    "906876633101016000000090000000000078f000fcfdf8f800000f03200001001840010c01ffff01600000030090000003000003007895"
    "9409210001002b420101016000000300900000030000030078a003c0801107cb965654a4c2f0168080000003008000000f042200010006"
    "4401c073c189"
)
# 7.0: -c:v libx265 -preset ultrafast -x265-params info=0 -pix_fmt yuv420p10le; 1280x720 at 50
HEVC_MAIN10_720P50 = bytes.fromhex(
    "906876633101022000000090000000000078f000fcfdfafa00000f03200001001840010c01ffff02200000030090000003000003007895"
    "9409210001002a420101022000000300900000030000030078a00280802d136595952930bc05a020000003002000000641220001000644"
    "01c073c189"
)
# 7.0: -c:v libx265 -preset ultrafast -x265-params info=0:level-idc=4.1:high-tier=1 -pix_fmt yuv422p10le; 642x362 at 25
HEVC_REXT_362P25 = bytes.fromhex(
    "90687663310124080000009d08000000007bf000fcfefafa00000f03200001001740010c01ffff2408000003009d0800000300007b9594"
    "09210001002c4201012408000003009d0800000300007bb005220171c44ed965654a4c2f016808000003000800000300c8402200010006"
    "4401c073c189"
)
# 7.0: -c:v libaom-av1 -cpu-used 8 -pix_fmt yuv420p; 640x360 at 30
AV1_MAIN_360P30 = bytes.fromhex("906176303181010c000a0b0000000cc4ff6736be4010")
# The same file's first video message: libaom knows its record only after the first frame, and FFmpeg sends both.
AV1_EMPTY_SETUP = bytes.fromhex("9061763031")
# 7.0: -c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv420p10le; 1920x1080 at 30
AV1_MAIN_10BIT_1080P30 = bytes.fromhex("906176303181084c000a0b00000042abbfc3776a6501")
# 7.0: -c:v libaom-av1 -cpu-used 8 -pix_fmt yuv444p; 320x182 at 30
AV1_HIGH_182P30 = bytes.fromhex("9061763031812000000a0a200000043cfed4daf902")
# 5.1: -c:v libsvtav1 -preset 12 -pix_fmt yuv420p to MP4, then 7.0: -c copy; 426x240 at 25
AV1_SVT_240P25 = bytes.fromhex("906176303181000c000a0b000000043ea7bc02f80040")
# 7.0: -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv420p; 640x360 at 30
VP9_PROFILE0_360P30 = bytes.fromhex("9076703039010000000015820202020000")
# 7.0: -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv422p10le; 330x186 at 30
VP9_PROFILE3_186P30 = bytes.fromhex("907670303901000000030ba40202020000")

# First bytes of the first frames of the two VP9 files, and of `-c:v libvpx -deadline realtime` in IVF; 330x186.
VP9_PROFILE0_KEY = bytes.fromhex("9176703039824983420027f016760638241c184a1007505f")
VP9_PROFILE0_INTER = bytes.fromhex("a176703039860040929c485001000b007d234a3a2948a4af")
VP9_PROFILE3_KEY = bytes.fromhex("9176703039b124c1a10200a4805cb031c120e0c2c0005900")
VP9_PROFILE3_INTER = bytes.fromhex("a176703039b30020494e2428000008007ea341418340c32f")
VP8_KEY_FRAME = bytes.fromhex("1057009d012a4a01ba0000c708858588")

# 5.1: -c:a aac with -ac 2 at 48000, -ac 1 at 44100, -ac 6 and -ac 8 at 48000, -af aformat=channel_layouts=quad at 48000
AAC_LC_48K_STEREO = bytes.fromhex("af00119056e500")
AAC_LC_44K1_MONO = bytes.fromhex("af00120856e500")
AAC_LC_48K_5_1 = bytes.fromhex("af0011b056e500")
AAC_LC_48K_7_1 = bytes.fromhex("af0011b856e500")
AAC_LC_48K_QUAD = bytes.fromhex("af00118004c4040021100d4c61766335392e33372e31303056e500")
# 7.0: -c:a aac -ac 1 at 16000
AAC_LC_16K_MONO = bytes.fromhex("af00140856e500")

# 7.0: -c:a libopus -ac 2 and -c:a libopus -ac 6 -mapping_family 1, first packets of the Ogg files
OPUS_HEAD_STEREO = bytes.fromhex("4f707573486561640102380180bb0000000000")
OPUS_HEAD_5_1 = bytes.fromhex("4f707573486561640106380180bb00000000010402000401020305")
# 7.0: -c:a flac -ac 2 at 44100, and -ac 6 -sample_fmt s32 -bits_per_raw_sample 24 at 96000, first bytes of the files
FLAC_44K1_STEREO = bytes.fromhex("664c614300000022120012000004a30005080ac442f0000022745d105ceb212ad5d36e4f5608def3d8b7")
FLAC_96K_5_1 = bytes.fromhex("664c61430000002220002000000d2c00255717700b7000004b007bb7f7837102159ed64cf0cbf243b671")

# First bytes of the first frames: 5.1, -c:a libmp3lame -ac 2 and nellymoser -ac 1 and pcm_s16le -ac 2 at 44100,
# libspeex -ac 1 at 16000, pcm_mulaw -ac 1 at 8000; -c:v flv and -c:v flashsv, 160x90.
MP3_FRAME = bytes.fromhex("2ffffb90640000026b0bce9d60600000")
NELLYMOSER_FRAME = bytes.fromhex("6e372e8835e7de6bef3de7de830e3ef8")
PCM_FRAME = bytes.fromhex("3f00000000b500b500690169011d021d")
SPEEX_FRAME = bytes.fromhex("b630549822d2000068e8e8e8e8e8e8e8")
MU_LAW_FRAME = bytes.fromhex("82ffc8bab3afafb2b9c6ef4a3b332f2f")
H263_KEY_FRAME = bytes.fromhex("1200008400502d11a620202021fffee8")
SCREEN_KEY_FRAME = bytes.fromhex("1330a0305a012678daedd92130c45114")
